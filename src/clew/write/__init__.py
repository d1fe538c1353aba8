"""Tables into formats."""
