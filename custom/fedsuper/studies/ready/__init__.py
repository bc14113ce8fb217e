"""The papers' comparisons by name: a YAML file each, and what runs them."""
