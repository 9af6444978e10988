"""What is asked of sessions besides their transcript: quotations, search, lineage; of files and of
topics. The parameters are those of the command line and of any other door (`parameters.py`)."""
