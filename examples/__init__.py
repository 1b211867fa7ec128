"""Example applications; not part of the installed package."""
