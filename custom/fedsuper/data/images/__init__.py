"""Image files in and out, with their geometry."""
