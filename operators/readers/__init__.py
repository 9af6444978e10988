"""Figures read off a folded session (readers.md): pure left folds beside the session's rooms."""
