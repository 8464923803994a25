"""The generated pages of docs; each is generated from the code that it describes.

`make reference` writes them; a test compares the committed pages with newly generated ones.
"""
