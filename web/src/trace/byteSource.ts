/** The byte source of a trace: ranges from a server, or the page itself. */

export interface ByteSource {
  /** The bytes from `start` up to `end`. */
  read(start: number, end: number): Promise<ArrayBuffer>;
}

export class MemoryByteSource implements ByteSource {
  constructor(private readonly all: ArrayBuffer) {}

  async read(start: number, end: number): Promise<ArrayBuffer> {
    return this.all.slice(start, end);
  }
}
