/** Opening the trace of this page: embedded in it, or asked for from the server a few bytes at a time. */

import { api } from "./api";
import { type ByteSource, MemoryByteSource } from "./byteSource";
import { Trace } from "./trace";

/** What `/api/model` tells of a model that runs behind the page. */
export interface LiveModel {
  readonly title: string;
  readonly task: string | null;
  readonly kind: string;
  readonly pairs: boolean;
  readonly writes: boolean;
  readonly traces: boolean;
  readonly max_length: number;
}

/** How the page was started. */
export interface BootConfig {
  readonly mode: "embedded" | "file" | "live";
  readonly trace?: string | null;
  readonly model?: LiveModel | null;
}

/** What stands in `<script id="boot">`. */
export function bootConfig(): BootConfig {
  const text = document.getElementById("boot")?.textContent;
  if (!text) throw new Error("the page has no boot data: open it through jumok view, or export it again");
  return JSON.parse(text) as BootConfig;
}

/** The trace that stands in `<script id="trace">`: base64 of a gzipped file. */
export async function openEmbedded(): Promise<Trace> {
  const text = document.getElementById("trace")?.textContent?.trim();
  if (!text) throw new Error("the page holds no trace");
  return Trace.open(new MemoryByteSource(await gunzipBase64(text)));
}

/** A trace of the server's. */
export function openServed(id: string): Promise<Trace> {
  return Trace.open(new RangeByteSource(`api/trace/${id}`));
}

/** The bytes behind base64 of gzip. */
export async function gunzipBase64(base64: string): Promise<ArrayBuffer> {
  const binary = atob(base64);
  const zipped = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) zipped[i] = binary.charCodeAt(i);
  return gunzip(new Blob([zipped]).stream());
}

function gunzip(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<ArrayBuffer> {
  return new Response(stream.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/** Bytes of a file on the server, each range with a request of its own, zipped on the way if the server can. */
export class RangeByteSource implements ByteSource {
  private whole: Promise<ArrayBuffer> | null = null; // from a server that knows no ranges

  constructor(private readonly path: string) {}

  async read(start: number, end: number): Promise<ArrayBuffer> {
    if (this.whole) return (await this.whole).slice(start, end);
    const answer = await api(this.path, { headers: { Range: `bytes=${start}-${end - 1}`, "X-Jumok-Zip": "1" } });
    if (answer.status === 206 && answer.headers.has("X-Jumok-Zip") && answer.body) return gunzip(answer.body);
    if (answer.status === 206) return answer.arrayBuffer();
    this.whole = answer.arrayBuffer();
    return (await this.whole).slice(start, end);
  }
}
