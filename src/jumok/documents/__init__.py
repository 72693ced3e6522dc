"""Documents: texts with markup, read into blocks that are translated and written back.

    document = Document.read(source, "markdown")
    document.write([(translate(block.text), None) for block in document.blocks])

What is not a text stays as it is, character by character. Nothing here needs a model;
`jumok.tasks.pipeline.translation` translates the blocks.
"""

from jumok.documents.document import FORMATS, Document, format_of

__all__ = ["FORMATS", "Document", "format_of"]
