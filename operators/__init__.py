"""The folds: events in, changes out. Pure; README.md is the map of the rooms."""
