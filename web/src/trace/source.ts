/** Opens the trace of this page: embedded in it, or read from the server by byte ranges. */

import { api } from "./api";
import { type ByteSource, MemoryByteSource } from "./safetensors";
import { Trace } from "./trace";

export { type BootConfig, bootConfig, type LiveModel } from "./boot";

/** The trace in `<script id="trace">`: base64 of a gzipped file. */
export async function openEmbedded(): Promise<Trace> {
  const text = document.getElementById("trace")?.textContent?.trim();
  if (!text) throw new Error("the page contains no trace; export it again");
  return Trace.open(new MemoryByteSource(await gunzipBase64(text)));
}

/** A trace on the server. */
export function openServed(id: string): Promise<Trace> {
  return Trace.open(new RangeByteSource(`api/trace/${id}`));
}

/** Decodes base64 and gunzips the bytes. */
export async function gunzipBase64(base64: string): Promise<ArrayBuffer> {
  const binary = atob(base64);
  const zipped = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) zipped[i] = binary.charCodeAt(i);
  return gunzip(new Blob([zipped]).stream());
}

function gunzip(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<ArrayBuffer> {
  return new Response(stream.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/** A file on the server, one request per range, gzipped in transit if the server supports it. */
export class RangeByteSource implements ByteSource {
  private whole: Promise<ArrayBuffer> | null = null; // if the server ignores ranges

  constructor(private readonly path: string) {}

  async read(start: number, end: number): Promise<ArrayBuffer> {
    if (this.whole) return (await this.whole).slice(start, end);
    const response = await api(this.path, { headers: { Range: `bytes=${start}-${end - 1}`, "X-Jumok-Zip": "1" } });
    if (response.status === 206 && response.headers.has("X-Jumok-Zip") && response.body) return gunzip(response.body);
    if (response.status === 206) return response.arrayBuffer();
    this.whole = response.arrayBuffer();
    return (await this.whole).slice(start, end);
  }
}
