/** The beam tree: what was kept at each step, laid out from left to right, a window of steps at a time. */

import type { Beam, Step } from "../../trace/format";

export interface TreeNode {
  readonly beam: Beam;
  readonly step: number;
  readonly x: number; // in steps, from the first of the window
  y: number; // in rows
  readonly children: TreeNode[];
}

export interface TreeLink {
  readonly from: TreeNode | null; // null: it comes from before the window
  readonly to: TreeNode;
}

export interface TreeLayout {
  readonly nodes: readonly TreeNode[];
  readonly links: readonly TreeLink[];
  readonly first: number; // the steps drawn, both included
  readonly last: number;
  readonly rows: number;
}

/** The steps around `step` that together have at most `most` beams. */
export function windowOf(steps: readonly Step[], step: number, max: number): readonly [first: number, last: number] {
  let first = step;
  let last = step;
  let count = steps[step]?.beams.length ?? 0;
  for (let grown = true; grown; ) {
    grown = false;
    for (const next of [first - 1, last + 1]) {
      const more = steps[next]?.beams.length;
      if (more === undefined || count + more > max) continue;
      count += more;
      if (next < first) first = next;
      else last = next;
      grown = true;
    }
  }
  return [first, last];
}

/**
 * Where each beam of the window stands: parents in the middle of their children, one step to the left of them, no two
 * in one place. A subtree moves down until it has room, each step as little as it can (Wetherell and Shannon 1979).
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
  const free: number[] = []; // the first free row of each step
  for (const { from, to } of links) if (!from) placeSubtree(to, free);
  return { nodes: [...nodes.values()], links, first, last, rows: Math.max(0, ...free) };
}

function placeSubtree(node: TreeNode, free: number[]): void {
  for (const child of node.children) placeSubtree(child, free);
  const firstFree = free[node.x] ?? 0;
  node.y = node.children.length ? (node.children[0].y + node.children[node.children.length - 1].y) / 2 : firstFree;
  if (node.y < firstFree) moveDown(node, firstFree - node.y, free);
  free[node.x] = node.y + 1;
}

function moveDown(node: TreeNode, by: number, free: number[]): void {
  node.y += by;
  free[node.x] = Math.max(free[node.x] ?? 0, node.y + 1);
  for (const child of node.children) moveDown(child, by, free);
}
