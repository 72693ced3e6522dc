/** Opens the trace of this page: embedded in it, or read from the server by byte ranges. */

import { api } from "./api";
import type { Effects } from "./format";
import { type ByteSource, MemoryByteSource } from "./safetensors";
import { Trace } from "./trace";

/** The response of `/api/model`: the live model of the server. */
export interface LiveModel {
  readonly title: string;
  readonly task: string | null;
  readonly kind: string;
  readonly pairs: boolean;
  readonly writes: boolean;
  readonly traces: boolean;
  readonly max_length: number;
  readonly examples?: readonly string[]; // inputs to try; those of a pair are separated by TAB
  readonly decode?: Readonly<Record<string, unknown>> | null; // the decoding settings
  readonly checkpoints?: readonly string[]; // of the run, oldest first
}

/** How the page was started. */
export interface BootConfig {
  readonly mode: "embedded" | "file" | "live";
  readonly trace?: string | null;
  readonly model?: LiveModel | null;
  readonly effects?: Effects | null; // measured before the page was saved
}

/** The content of `<script id="boot">`. */
export function bootConfig(): BootConfig {
  const text = document.getElementById("boot")?.textContent;
  if (!text) throw new Error("the page has no boot data; open it with jumok view, or export it again");
  return JSON.parse(text) as BootConfig;
}

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
