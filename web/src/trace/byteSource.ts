/** Where the bytes of a trace come from: a server, a few at a time, or the page itself. */

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
