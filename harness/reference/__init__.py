"""The generated pages of docs: each is made from the code that it describes.

`make reference` writes them; a test compares the committed pages with freshly made ones.
"""
