/** What of a circuit is drawn and where: rows are layers from the bottom to the top, columns are tokens. */

import type { CircuitGraph, GraphEdge, GraphNode, Side } from "../../trace/format";

/** The strongest edges, and their nodes with all tokens and logits, and the `chosen` node; as numbers in the graph. */
export function drawn(graph: CircuitGraph, count: number, chosen: number): { readonly edges: readonly GraphEdge[]; readonly nodes: readonly number[] } {
  const edges = graph.edges.slice(0, count);
  const ends = new Set([...edges.flatMap(({ source, target }) => [source, target]), chosen]);
  const nodes = graph.nodes.flatMap(({ kind }, i) => (kind === "token" || kind === "logit" || ends.has(i) ? [i] : []));
  return { edges, nodes };
}

export interface Row {
  readonly side: Side;
  readonly layer: number;
  readonly kind: "token" | "feature" | "logit";
  readonly y: number; // of its middle
}

export interface Layout {
  readonly width: number;
  readonly height: number;
  readonly column: number; // the width of a column
  readonly rows: readonly Row[];
  readonly places: ReadonlyMap<number, readonly [x: number, y: number]>; // of the drawn nodes
}

export const LEFT = 74; // the names of the rows
const [DOT, NARROW, LABEL, WIDE] = [14, 40, 70, 110]; // the room of a node in a layer; widths of a column, also for a long label
const MAX_EXTRA = 70; // pixels between two rows, if the height has room

/** `label` is the width of the longest text of a token, `height` the height that the rows fill. The encoder is below the decoder, so that every edge leads upwards. The nodes of a layer at a token are side by side. */
export function layoutOf({ nodes }: CircuitGraph, shown: readonly number[], width: number, label: number, height = 0): Layout {
  const columns = 1 + Math.max(...nodes.map(({ token }) => token));
  const column = Math.min(WIDE, Math.max(NARROW, Math.min(LABEL, label + 8), (width - LEFT) / columns));
  const perLine = Math.floor((column - 2) / DOT);
  const cells = new Map<string, number[]>();
  for (const i of shown) {
    const cell = `${rowKey(nodes[i])}.${nodes[i].token}`;
    cells.set(cell, [...(cells.get(cell) ?? []), i]);
  }
  const linesOf = (row: string) => Math.max(1, ...[...cells].filter(([cell]) => cell.startsWith(`${row}.`)).map(([, own]) => Math.ceil(own.length / perLine)));
  const keys = [...new Set(nodes.map(rowKey))].sort((a, b) => order(a) - order(b)).reverse(); // the top first
  const rows: Row[] = [];
  const places = new Map<number, readonly [number, number]>();
  let y = 4;
  const measured = keys.map((key) => {
    const first = nodes.find((node) => rowKey(node) === key) as GraphNode;
    const kind = first.kind === "error" ? "feature" : first.kind;
    return { key, first, kind, high: kind === "feature" ? linesOf(key) * DOT + 26 : 40 };
  });
  const least = measured.reduce((sum, { high }) => sum + high, 8);
  const extra = Math.max(0, Math.min(MAX_EXTRA, (height - least) / (keys.length - 1)));
  for (const { key, first, kind, high } of measured) {
    rows.push({ side: first.side, layer: first.layer, kind, y: y + high / 2 });
    for (const [cell, own] of cells) {
      if (!cell.startsWith(`${key}.`)) continue;
      const middle = LEFT + (nodes[own[0]].token + 0.5) * column;
      own.forEach((i, n) => {
        const line = Math.floor(n / perLine);
        const inLine = Math.min(perLine, own.length - line * perLine);
        places.set(i, [middle + (n % perLine - (inLine - 1) / 2) * DOT, y + high / 2 + (line - (Math.ceil(own.length / perLine) - 1) / 2) * DOT]);
      });
    }
    y += high + extra;
  }
  return { width: LEFT + columns * column, height: y - extra + 4, column, rows, places };
}

const rowKey = ({ side, layer }: GraphNode) => `${side}.${layer}`;

function order(key: string): number {
  const [side, layer] = key.split(".");
  return (side === "target" ? 1e6 : 0) + Number(layer);
}

/** The node and those that `edges` connect with it; empty if none does. */
export function nearNodes(edges: readonly GraphEdge[], node: number): ReadonlySet<number> {
  return new Set(edges.flatMap(({ source, target }) => (source === node || target === node ? [source, target] : [])));
}

/** The node that a picture wider than its room shows at first: the chosen one, else the logit of the largest influence. */
export function firstInView({ nodes }: CircuitGraph, chosen: number): number {
  if (chosen !== -1) return chosen;
  const logits = nodes.flatMap(({ kind }, i) => (kind === "logit" ? [i] : []));
  return logits.reduce((best, i) => (nodes[i].influence > nodes[best].influence ? i : best), logits[0]);
}

/** The edges of a node by the size of their weight: what comes in and what goes out. */
export function edgesOf({ edges }: CircuitGraph, node: number): { readonly incoming: readonly GraphEdge[]; readonly outgoing: readonly GraphEdge[] } {
  const sorted = [...edges].sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight));
  return { incoming: sorted.filter(({ target }) => target === node), outgoing: sorted.filter(({ source }) => source === node) };
}

/**
 * The node that a key leads to: up along the strongest edge that goes out, down along the strongest that comes in, to the
 * left and right within the layer; null: none.
 */
export function nextNode(graph: CircuitGraph, { places }: Layout, edges: readonly GraphEdge[], node: number, key: string): number | null {
  const { incoming, outgoing } = edgesOf({ ...graph, edges }, node);
  if (key === "ArrowUp") return outgoing[0]?.target ?? null;
  if (key === "ArrowDown") return incoming[0]?.source ?? null;
  const by = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (!by) return null;
  const row = [...places.keys()].filter((i) => rowKey(graph.nodes[i]) === rowKey(graph.nodes[node]));
  const at = ([x, y]: readonly [number, number]) => x + y / 1000;
  row.sort((a, b) => at(places.get(a) ?? [0, 0]) - at(places.get(b) ?? [0, 0]));
  return row[row.indexOf(node) + by] ?? null;
}

/** The texts in which the feature of a node is most active. */
export function peaksOf({ features }: CircuitGraph, { kind, side, layer, number }: GraphNode) {
  if (kind !== "feature") return [];
  return features.find((each) => each.side === side && each.layer === layer && each.number === number)?.peaks ?? [];
}
