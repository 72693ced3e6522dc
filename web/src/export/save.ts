/** Handing a file to the reader. */

/** Saves a file; in a frame that may not download, the browser says nothing and does nothing. */
export function save(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // a large file is read for a while
}
