/** The circuit on the page: its edges, the chosen node, the keyboard, the table and its exports. */

import { render } from "preact";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { refused, setting } from "../../state/settings";
import { languageSetting, view } from "../../state/state";
import { Tabs } from "../../shell/tabs";
import { CIRCUIT, testTrace } from "../../testing/testTrace";
import type { Trace } from "../../trace/trace";
import { circuit } from "./circuit";

const [edges, node] = [setting<number>("circuit", "edges", 60), setting<number>("circuit", "node", -1)];
let trace: Trace;

beforeEach(async () => {
  [languageSetting.value, edges.value, node.value, refused.value] = ["en", 60, -1, []];
  trace = await testTrace({ circuit: CIRCUIT });
  render(<circuit.Stage trace={trace} />, document.body);
});

afterEach(() => {
  render(null, document.body);
  [languageSetting.value, view.value] = ["auto", "lines"];
});

const all = (selector: string) => [...document.querySelectorAll<HTMLElement>(selector)];
const at = (i: number) => document.getElementById(`circuit-${i}`) as HTMLElement;
const details = () => document.querySelector("[data-role=node]")?.textContent ?? "";
const press = (i: number, key: string) => {
  const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
  at(i).dispatchEvent(event);
  return event;
};

it("draws as many edges as the slider says, dashed if they subtract", async () => {
  expect(all("path[data-edge]").map(({ dataset }) => dataset.edge).sort()).toEqual(["1-2", "1-4", "2-5", "3-5", "4-5"]);
  expect(all("path[stroke-dasharray]").map(({ dataset }) => dataset.edge)).toEqual(["4-5"]);
  const widths = Object.fromEntries(all("path[data-edge]").map((path) => [path.dataset.edge, Number(path.getAttribute("stroke-width"))]));
  expect(widths["2-5"]).toBeGreaterThan(widths["4-5"]);
  edges.value = 2;
  await vi.waitFor(() => expect(all("path[data-edge]").length).toBe(2));
  expect(all("[data-node]").map(({ dataset }) => dataset.node)).toEqual(["0", "1", "2", "5"]);
  expect(all("tbody tr").length).toBe(2);
});

it("a click shows the edges of a node, the texts of its feature and its neighbours; again, nothing", async () => {
  at(2).dispatchEvent(new MouseEvent("click", { bubbles: true }));
  await vi.waitFor(() => expect(details()).toContain("feature 7, L0 · source ␣나 (1): value 2.00, influence 50.0"));
  expect(document.querySelector("[data-role=peaks] mark")?.textContent).toBe("␣시");
  expect(all("[data-role=source] li").map(({ textContent }) => textContent)).toEqual(["+2.00 source ␣나 (1) measured +0.25"]);
  expect(all("[data-role=target] li").map(({ textContent }) => textContent)).toEqual(["+3.00 logit 긍정 · source [CLS] (0) measured +2.50 · encoder L1 H0 +2.00"]);
  const strong = all("path[data-edge]").filter((path) => Number(path.getAttribute("opacity")) > 0.5);
  expect(strong.map(({ dataset }) => dataset.edge).sort()).toEqual(["1-2", "2-5"]);
  expect(at(2).getAttribute("aria-pressed")).toBe("true");
  all("[data-role=target] button")[0].click();
  expect(node.value).toBe(5);
  await vi.waitFor(() => expect(at(5).getAttribute("aria-pressed")).toBe("true"));
  at(5).dispatchEvent(new MouseEvent("click", { bubbles: true }));
  expect(node.value).toBe(-1);
});

it("arrow keys move along edges, Enter locks and Escape unlocks", async () => {
  expect(all('[data-node][tabindex="0"]').length).toBe(1); // Tab reaches one
  at(1).focus();
  expect(press(1, "ArrowUp").defaultPrevented).toBe(true);
  expect(document.activeElement?.id).toBe("circuit-2");
  expect(press(2, "l").defaultPrevented).toBe(false); // a shortcut of the page
  press(2, "Enter");
  expect(node.value).toBe(2);
  await vi.waitFor(() => expect(at(2).tabIndex).toBe(0));
  press(2, "Escape");
  expect(node.value).toBe(-1);
});

it("a node without a drawn edge says so in both languages, and no edge is faint", async () => {
  at(0).focus();
  await vi.waitFor(() => expect(details()).toContain("None of the 5 drawn edges is connected to this node."));
  expect(details()).toContain("influence");
  expect(all("path[data-edge]").map((path) => path.getAttribute("opacity"))).toEqual(Array(5).fill("0.55"));
  expect(at(4).firstElementChild?.getAttribute("opacity")).toBe("1");
  languageSetting.value = "ko";
  await vi.waitFor(() => expect(details()).toContain("그려진 간선 5개 가운데 이 노드에 연결된 간선이 없습니다."));
  at(1).focus();
  await vi.waitFor(() => expect(document.querySelector("[data-role=unconnected]")).toBeNull());
});

it("a node that the circuit does not have is refused", async () => {
  node.value = 99;
  await vi.waitFor(() => expect(refused.value).toEqual(["circuit.node=99"]));
  expect(node.value).toBe(-1);
});

it("is in Korean, and exported as a picture and a table", async () => {
  languageSetting.value = "ko";
  await vi.waitFor(() => expect(document.body.textContent).toContain("L0 오차 · 입력 ␣나 (1)"));
  const picture = (await circuit.svg?.(trace)) ?? "";
  expect(picture.match(/<path/g)?.length).toBe(5);
  expect(picture).toContain("긍정");
  const rows = (await circuit.table?.(trace)) ?? [];
  expect(rows[1]).toEqual(["source[1] ▁나 L0 #7", "logit 긍정", 3, 2.5, "encoder.1.0", 2]);
  expect(rows.length).toBe(6);
});

it("its tab is there only where the trace has a circuit", async () => {
  const tabs = () => all("[role=tab]").map(({ dataset }) => dataset.view);
  render(<Tabs trace={trace} />, document.body);
  expect(tabs()).toContain("circuit");
  render(<Tabs trace={await testTrace()} />, document.body);
  expect(tabs()).not.toContain("circuit");
  expect(tabs().length).toBe(12);
  view.value = "circuit"; // of a link
  await vi.waitFor(() => expect(tabs()).toContain("circuit"));
});
