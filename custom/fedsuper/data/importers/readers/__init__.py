"""Readers of the file formats that public sets come in."""
