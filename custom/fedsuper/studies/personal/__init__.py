"""What a site's own choice is worth: every candidate of `personal: auto`, scored where the choice could not look."""
