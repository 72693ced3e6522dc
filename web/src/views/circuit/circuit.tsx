/** The circuit of a text: an attribution graph over tokens, features, errors and logits. */

import { type DrawingColours, fitText, label, markup, PAGE_COLOURS, PRINT_COLOURS, svgDocument, textWidth } from "../../draw/svg";
import { formatChange, formatNumber } from "../../draw/numbers";
import { displayText, readablePieces } from "../../draw/text";
import { BLOCKS, headName } from "../../i18n/blocks";
import { t } from "../../i18n/i18n";
import { refuse, setting } from "../../state/settings";
import type { CircuitGraph, GraphEdge, GraphNode, Side } from "../../trace/format";
import type { Trace } from "../../trace/trace";
import type { StageProps, ViewRenderer } from "../view";
import { circuit as about } from "../viewInfo";
import { useRoom } from "../width";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { drawn, edgesOf, firstInView, type Layout, layoutOf, LEFT, nearNodes, nextNode, peaksOf } from "./circuitData";

export const circuit: ViewRenderer = { Stage, svg, table };

const count = () => setting<number>("circuit", "edges", 60);
const chosen = () => setting<number>("circuit", "node", -1); // -1: none

const [TEXT_WIDTH, ABOVE, BELOW] = [280, 90, 110]; // pixels: the text next to the picture, the slider and the table, the text below the picture

/** The chosen node; one that the graph does not have is refused. */
function chosenNode({ nodes }: CircuitGraph): number {
  const node = chosen().value;
  if (node === -1 || nodes[node]) return node;
  queueMicrotask(() => {
    refuse("circuit.node", String(node)); // not during rendering
    chosen().value = -1;
  });
  return -1;
}

function Stage({ trace }: StageProps) {
  const graph = trace.info.circuit;
  const [box, width, height] = useRoom(720);
  const picture = useRef<HTMLDivElement>(null);
  const [hovered, setHovered] = useState(-1);
  const node = graph ? chosenNode(graph) : -1;
  const { edges, nodes } = graph ? drawn(graph, count().value, node) : { edges: [], nodes: [] };
  const fit = (room: number, below: number) => graph && layoutOf(graph, nodes, room, longestLabel(trace, graph), height - ABOVE - below);
  const narrow = fit(width - TEXT_WIDTH, 0);
  const isWide = !!narrow && narrow.width > width - TEXT_WIDTH; // the text is below the picture
  const layout = isWide ? fit(width, BELOW) : narrow;
  useLayoutEffect(() => {
    if (!graph || !layout || !picture.current) return;
    const [x] = layout.places.get(firstInView(graph, node)) ?? [0];
    picture.current.scrollLeft = x - (LEFT + picture.current.clientWidth) / 2; // the names of the rows do not scroll
  }, [graph, layout?.width]);
  if (!graph || !layout) return <p>{t(about.missing)}</p>;
  const focus = nodes.includes(hovered) ? hovered : node;
  const near = nearNodes(edges, focus);
  const move = (event: KeyboardEvent) => {
    const from = Number((event.target as Element).closest<SVGElement>("[data-node]")?.dataset.node);
    const next = nextNode(graph, layout, edges, from, event.key);
    if (event.key === "Enter" || event.key === " ") chosen().value = node === from ? -1 : from;
    else if (event.key === "Escape" && node !== -1) chosen().value = -1;
    else if (next !== null) document.getElementById(`circuit-${next}`)?.focus();
    else if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
  };
  const first = node === -1 ? nodes[nodes.length - 1] : node; // Tab reaches one node, arrows the others
  return (
    <div class="circuit" ref={box}>
      <p class="choices">
        <label class="choice live-slider">
          {t({ ko: "간선", en: "edges" })}
          <input type="range" min={1} max={graph.edges.length} value={edges.length} data-role="edges" onInput={(event) => (count().value = event.currentTarget.valueAsNumber)} />
          <output>{edges.length}</output>
        </label>
        <small>{summary(graph)}</small>
      </p>
      <div class="circuit-picture" ref={picture}>
        <svg class="circuit-names" width={LEFT} height={layout.height}>{names(layout, PAGE_COLOURS)}</svg>
        <svg role="group" aria-label={t(about.title)} width={layout.width - LEFT} height={layout.height} viewBox={`${LEFT} 0 ${layout.width - LEFT} ${layout.height}`} onKeyDown={move}>
          {background(graph, layout, edges, focus, near, PAGE_COLOURS)}
          {nodes.map((i) => (
            <g
              key={i}
              id={`circuit-${i}`}
              role="button"
              tabindex={i === first ? 0 : -1} // in SVG attributes keep their case
              data-node={i}
              aria-label={nodeTitle(trace, graph.nodes[i])}
              aria-pressed={i === node}
              onPointerEnter={() => setHovered(i)}
              onPointerLeave={() => setHovered(-1)}
              onFocus={() => setHovered(i)}
              onBlur={() => setHovered(-1)}
              onClick={() => (chosen().value = i === node ? -1 : i)}
            >
              {shape(trace, graph, layout, i, focus, near, PAGE_COLOURS)}
            </g>
          ))}
        </svg>
      </div>
      <section class="circuit-details" data-role="node" aria-label={t({ ko: "노드", en: "node" })}>
        {focus === -1 ? <p class="hint">{t(HINT)}</p> : <Details trace={trace} graph={graph} node={focus} drawnEdges={near.size ? 0 : edges.length} />}
      </section>
      <Table trace={trace} graph={graph} edges={edges} />
    </div>
  );
}

const HINT = {
  ko: "노드를 가리키거나 클릭하면 들어오고 나가는 간선이 표시됩니다. 키보드: ↑ ↓는 가장 강한 간선을 따라, ← →는 레이어 안에서 이동, Enter는 고정.",
  en: "Point at a node or click it: its incoming and outgoing edges are shown. Keyboard: ↑ ↓ follow the strongest edge, ← → move within the layer, Enter locks.",
};

const share = (fraction: number) => `${(100 * fraction).toFixed(1)}\u00a0%`;

function summary({ total_nodes, total_edges, replacement, edges }: CircuitGraph): string {
  const [n, all, kept] = [total_nodes, total_edges, edges.length].map((each) => each.toLocaleString("en"));
  return t({
    ko: `노드 ${n}개와 간선 ${all}개 가운데 가장 강한 간선 ${kept}개 · 영향 중 토큰 ${share(replacement)}, 오차 ${share(1 - replacement)}`,
    en: `the strongest ${kept} of ${all} edges between ${n} nodes · of the influence, tokens ${share(replacement)}, errors ${share(1 - replacement)}`,
  });
}

const SIDES = { source: { ko: "입력", en: "source" }, target: { ko: "출력", en: "target" } };

function pieceAt({ info }: Trace, side: Side, token: number): string {
  const tokens = info.sides[side]?.[0];
  return tokens ? displayText(readablePieces(tokens)[token] ?? "") : "";
}

/** "feature 148, L1 · source ␣추 (2)". */
function nodeName(trace: Trace, node: GraphNode): string {
  const place = `${t(SIDES[node.side])} ${pieceAt(trace, node.side, node.token)} (${node.token})`;
  if (node.kind === "token") return place;
  if (node.kind === "logit") return t({ ko: `로짓 ${displayText(node.answer ?? "")} · ${place}`, en: `logit ${displayText(node.answer ?? "")} · ${place}` });
  if (node.kind === "error") return t({ ko: `L${node.layer} 오차 · ${place}`, en: `error, L${node.layer} · ${place}` });
  return t({ ko: `L${node.layer} 특징 ${node.number} · ${place}`, en: `feature ${node.number}, L${node.layer} · ${place}` });
}

function nodeTitle(trace: Trace, node: GraphNode): string {
  const [value, part] = [formatNumber(node.value, 2), share(node.influence)];
  return `${nodeName(trace, node)}: ${t({ ko: `값 ${value}, 영향 ${part}`, en: `value ${value}, influence ${part}` })}`;
}

function names({ rows }: Layout, colours: DrawingColours) {
  return rows.map(({ side, layer, kind, y }) => (
    <text key={`${side}.${layer}`} x={4} y={y + 4} font-size={11} fill={colours.faint}>
      {kind === "logit" ? t({ ko: "로짓", en: "logits" }) : `${t(SIDES[side])} ${kind === "token" ? t({ ko: "토큰", en: "tokens" }) : `L${layer}`}`}
    </text>
  ));
}

/** The lines of the layers, and the edges: those of the focused node in front, the others faint; none is faint if the node has no drawn edge. */
function background({ nodes }: CircuitGraph, { rows, places, width }: Layout, edges: readonly GraphEdge[], focus: number, near: ReadonlySet<number>, colours: DrawingColours) {
  const largest = Math.max(1e-9, ...edges.map(({ weight }) => Math.abs(weight)));
  const isNear = ({ source, target }: GraphEdge) => source === focus || target === focus;
  const sorted = [...edges].reverse().sort((a, b) => Number(isNear(a)) - Number(isNear(b))); // the strongest last
  return (
    <>
      {rows.map(({ side, layer, kind, y }) => kind === "feature" && <line key={`${side}.${layer}`} x1={LEFT} x2={width} y1={y} y2={y} stroke={colours.line} />)}
      {sorted.map((edge) => {
        const [[x, below], [right, above]] = [edge.source, edge.target].map((i) => places.get(i) ?? [0, 0]);
        const [y, top] = [below - halfHeight(nodes[edge.source]), above + halfHeight(nodes[edge.target])];
        const middle = (y + top) / 2;
        return (
          <path
            key={`${edge.source}-${edge.target}`}
            data-edge={`${edge.source}-${edge.target}`}
            d={`M${x} ${y}C${x} ${middle} ${right} ${middle} ${right} ${top}`}
            fill="none"
            stroke={edge.weight < 0 ? colours.bad : colours.accent}
            stroke-width={0.6 + (4 * Math.abs(edge.weight)) / largest}
            stroke-dasharray={edge.weight < 0 ? "5 3" : undefined}
            opacity={near.size === 0 ? 0.55 : isNear(edge) ? 0.95 : 0.1}
          />
        );
      })}
    </>
  );
}

/** The text of the box of a token or logit. */
const boxText = (trace: Trace, node: GraphNode) => (node.kind === "logit" ? displayText(node.answer ?? "") : pieceAt(trace, node.side, node.token));

function longestLabel(trace: Trace, { nodes }: CircuitGraph): number {
  return Math.max(...nodes.filter(({ kind }) => kind === "token" || kind === "logit").map((node) => textWidth(boxText(trace, node), 13)));
}

const halfHeight = ({ kind }: GraphNode) => (kind === "token" || kind === "logit" ? 11 : 5);

const FILLS = { token: "embedding", feature: "forward", error: "ground", logit: "output" } as const;

/** A node: a box with its text for tokens and logits, a dot for a feature, an empty square for an error. */
function shape(trace: Trace, { nodes }: CircuitGraph, { places, column }: Layout, i: number, focus: number, near: ReadonlySet<number>, colours: DrawingColours) {
  const node = nodes[i];
  const [x, y] = places.get(i) ?? [0, 0];
  const look = { fill: colours[FILLS[node.kind]], stroke: focus === i ? colours.focus : colours.edge, "stroke-width": focus === i ? 2.5 : 1 };
  const wide = column - 6;
  return (
    <g opacity={near.size === 0 || near.has(i) ? 1 : 0.45}>
      <title>{nodeTitle(trace, node)}</title>
      {node.kind === "feature" && <circle cx={x} cy={y} r={5} {...look} />}
      {node.kind === "error" && <rect x={x - 4.5} y={y - 4.5} width={9} height={9} {...look} />}
      {(node.kind === "token" || node.kind === "logit") && (
        <>
          <rect x={x - wide / 2} y={y - 11} width={wide} height={22} rx={4} {...look} />
          <text x={x} y={y + 4} font-size={12} text-anchor="middle" fill={colours.ink}>{fitText(boxText(trace, node), wide)}</text>
        </>
      )}
    </g>
  );
}

interface Props {
  readonly trace: Trace;
  readonly graph: CircuitGraph;
}

/** A node: its value, the texts in which its feature is most active, its strongest neighbours; `drawnEdges` of them if none is its own, else 0. */
function Details({ trace, graph, node, drawnEdges }: Props & { readonly node: number; readonly drawnEdges: number }) {
  const { incoming, outgoing } = edgesOf(graph, node);
  const peaks = peaksOf(graph, graph.nodes[node]);
  return (
    <>
      <h2>{nodeTitle(trace, graph.nodes[node])}</h2>
      {drawnEdges > 0 && <p data-role="unconnected">{t({ ko: `그려진 간선 ${drawnEdges}개 가운데 이 노드에 연결된 간선이 없습니다.`, en: `None of the ${drawnEdges} drawn edges is connected to this node.` })}</p>}
      {peaks.length > 0 && <h3>{t({ ko: "가장 크게 활성화된 텍스트", en: "most active in" })}</h3>}
      {peaks.length > 0 && (
        <ol data-role="peaks">
          {peaks.map(({ pieces, at, value }, i) => (
            <li key={i}>
              {displayText(pieces.slice(0, at).join("") || "▁")}
              <mark>{displayText(pieces[at])}</mark>
              {pieces.slice(at + 1).map((piece) => displayText(piece))} <span class="number">{formatNumber(value, 2)}</span>
            </li>
          ))}
        </ol>
      )}
      <Neighbours trace={trace} graph={graph} edges={incoming} of="source" title={t({ ko: "들어오는 간선", en: "incoming" })} />
      <Neighbours trace={trace} graph={graph} edges={outgoing} of="target" title={t({ ko: "나가는 간선", en: "outgoing" })} />
    </>
  );
}

const MOST = 8; // neighbours that are listed

function Neighbours({ trace, graph, edges, of, title }: Props & { readonly edges: readonly GraphEdge[]; readonly of: "source" | "target"; readonly title: string }) {
  if (!edges.length) return null;
  return (
    <>
      <h3>{`${title} (${edges.length})`}</h3>
      <ul data-role={of}>
        {edges.slice(0, MOST).map((edge) => (
          <li key={edge[of]}>
            <span class="number">{formatChange(edge.weight, 2)}</span> <NodeButton trace={trace} graph={graph} node={edge[of]} />
            <small>{t({ ko: ` 측정 ${formatChange(edge.measured, 2)}`, en: ` measured ${formatChange(edge.measured, 2)}` })}{headOf(edge) && ` · ${headOf(edge)}`}</small>
          </li>
        ))}
      </ul>
    </>
  );
}

function NodeButton({ trace, graph, node }: Props & { readonly node: number }) {
  return <button type="button" onClick={() => (chosen().value = node)}>{nodeName(trace, graph.nodes[node])}</button>;
}

/** "cross L1 H0 +0.80": the head that carries most of an edge. */
function headOf({ head, head_weight }: GraphEdge): string {
  return head ? `${t(BLOCKS[head[0]])} ${headName({ layer: head[1], head: head[2] })} ${formatChange(head_weight ?? 0, 2)}` : "";
}

/** The drawn edges as a table. */
function Table({ trace, graph, edges }: Props & { readonly edges: readonly GraphEdge[] }) {
  const title = t({ ko: "간선 표", en: "edges as a table" });
  const columns = [t({ ko: "에서", en: "from" }), t({ ko: "으로", en: "to" }), t({ ko: "가중치", en: "weight" }), t({ ko: "측정", en: "measured" }), t({ ko: "헤드", en: "head" })];
  return (
    <details class="circuit-table">
      <summary>{title}</summary>
      <div class="head-table-box" tabIndex={0} role="region" aria-label={title}>
        <table class="head-table">
          <thead>
            <tr>{columns.map((name) => <th key={name} scope="col">{name}</th>)}</tr>
          </thead>
          <tbody>
            {edges.map((edge) => (
              <tr key={`${edge.source}-${edge.target}`}>
                <td><NodeButton trace={trace} graph={graph} node={edge.source} /></td>
                <td><NodeButton trace={trace} graph={graph} node={edge.target} /></td>
                <td class="number">{formatChange(edge.weight, 2)}</td>
                <td class="number">{formatChange(edge.measured, 2)}</td>
                <td>{headOf(edge)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

async function svg(trace: Trace): Promise<string> {
  const graph = trace.info.circuit;
  if (!graph) return svgDocument(300, 40, "", label(10, 24, t(about.missing)));
  const node = chosenNode(graph);
  const { edges, nodes } = drawn(graph, count().value, node);
  const layout = layoutOf(graph, nodes, 900, longestLabel(trace, graph));
  const near = nearNodes(edges, node);
  const drawing = [names(layout, PRINT_COLOURS), background(graph, layout, edges, node, near, PRINT_COLOURS), nodes.map((i) => shape(trace, graph, layout, i, node, near, PRINT_COLOURS))];
  const note = node === -1 ? summary(graph) : nodeTitle(trace, graph.nodes[node]);
  return svgDocument(Math.max(layout.width, 620), layout.height + 26, `${trace.info.title}: ${t(about.title)}`, markup(drawing), label(8, layout.height + 16, note, { size: 11, fill: PRINT_COLOURS.faint }));
}

/** All edges of the trace, the strongest first. */
async function table(trace: Trace): Promise<(string | number)[][]> {
  const { nodes, edges } = trace.info.circuit ?? { nodes: [], edges: [] };
  return [
    ["source", "target", "weight", "measured", "head", "head_weight"],
    ...edges.map(({ source, target, weight, measured, head, head_weight }) => [nodes[source].name, nodes[target].name, weight, measured, head?.join(".") ?? "", head_weight ?? ""]),
  ];
}
