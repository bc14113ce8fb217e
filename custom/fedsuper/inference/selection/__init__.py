"""Which model an image gets: the closed-form selector, the gates, and how familiar an image is."""
