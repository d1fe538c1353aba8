"""The in-process library: C sources, and how they are compiled."""
