"""Pelves as hospitals see them: glands of all sizes, disease, weak apex and base, neighbors that resemble the gland."""
