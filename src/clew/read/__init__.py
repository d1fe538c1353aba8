"""Formats into Tables."""
