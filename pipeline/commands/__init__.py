"""The commands of ``foldstream``, one module per group; ``pipeline/cli.py`` is their door."""
