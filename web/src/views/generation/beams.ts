/** The layout of the beam tree: the beams of each step from left to right, in a window of steps. */

import type { Beam, Step } from "../../trace/format";

export interface TreeNode {
  readonly beam: Beam;
  readonly step: number;
  readonly x: number; // in steps, from the start of the window
  y: number; // in rows
  readonly children: TreeNode[];
}

export interface TreeLink {
  readonly from: TreeNode | null; // null: a parent before the window
  readonly to: TreeNode;
}

export interface TreeLayout {
  readonly nodes: readonly TreeNode[];
  readonly links: readonly TreeLink[];
  readonly first: number; // the first and the last step, inclusive
  readonly last: number;
  readonly rows: number;
}

/** The window around `step` with at most `max` beams in total. */
export function windowOf(steps: readonly Step[], step: number, max: number): readonly [first: number, last: number] {
  let first = step;
  let last = step;
  let count = steps[step]?.beams.length ?? 0;
  for (let changed = true; changed; ) {
    changed = false;
    for (const next of [first - 1, last + 1]) {
      const more = steps[next]?.beams.length;
      if (more === undefined || count + more > max) continue;
      count += more;
      if (next < first) first = next;
      else last = next;
      changed = true;
    }
  }
  return [first, last];
}

/**
 * A layered tree layout: a parent is at the mean row of its children, one step to their left, and no two nodes overlap.
 * A subtree moves down only as far as necessary (Wetherell and Shannon 1979).
 */
export function layoutTree(steps: readonly Step[], step: number, max = 300): TreeLayout {
  const [first, last] = windowOf(steps, step, max);
  const nodes = new Map<number, TreeNode>();
  const links: TreeLink[] = [];
  for (let at = first; at <= last; at++)
    for (const beam of steps[at]?.beams ?? []) {
      if (nodes.has(beam.id)) continue;
      const node = { beam, step: at, x: at - first, y: 0, children: [] };
      const parent = nodes.get(beam.parent);
      parent?.children.push(node);
      links.push({ from: parent ?? null, to: node });
      nodes.set(beam.id, node);
    }
  const nextFreeRow: number[] = []; // the first free row of each step
  for (const { from, to } of links) if (!from) placeSubtree(to, nextFreeRow);
  return { nodes: [...nodes.values()], links, first, last, rows: Math.max(0, ...nextFreeRow) };
}

function placeSubtree(node: TreeNode, nextFreeRow: number[]): void {
  for (const child of node.children) placeSubtree(child, nextFreeRow);
  const firstFree = nextFreeRow[node.x] ?? 0;
  node.y = node.children.length ? (node.children[0].y + node.children[node.children.length - 1].y) / 2 : firstFree;
  if (node.y < firstFree) moveDown(node, firstFree - node.y, nextFreeRow);
  nextFreeRow[node.x] = node.y + 1;
}

function moveDown(node: TreeNode, by: number, nextFreeRow: number[]): void {
  node.y += by;
  nextFreeRow[node.x] = Math.max(nextFreeRow[node.x] ?? 0, node.y + 1);
  for (const child of node.children) moveDown(child, by, nextFreeRow);
}
