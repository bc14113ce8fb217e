"""Its place puts this folder on the import path: helpers shared by several rooms' tests live here."""
