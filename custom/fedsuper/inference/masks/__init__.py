"""What a mask is worth and how it is cleaned: measured at the sites, used wherever masks are made."""
