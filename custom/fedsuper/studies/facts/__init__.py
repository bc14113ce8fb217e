"""What can be measured of a generator of hospitals: how fast a net learns its images, and what that teaches it."""
