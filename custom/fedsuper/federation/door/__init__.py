"""The one door for what comes from a site: what does not fit is refused by name and costs that site the round."""
