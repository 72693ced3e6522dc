import { describe, expect, it } from "vitest";
import * as a from "./arithmetic";

const of = (...rows: number[][]): a.Numbers => ({ rows: rows.length, columns: rows[0].length, data: rows.flat() });
const list = (numbers: a.Numbers) => Array.from(numbers.data);
const near = (numbers: a.Numbers, expected: readonly number[], digits = 12) => {
  expect(numbers.data.length).toBe(expected.length);
  expected.forEach((value, i) => expect(numbers.data[i]).toBeCloseTo(value, digits));
};

describe("products", () => {
  it("multiplies rows by columns", () => {
    expect(list(a.matmul(of([1, 2], [3, 4]), of([5, 6], [7, 8])))).toEqual([19, 22, 43, 50]);
  });
  it("adds the bias of a linear map", () => {
    expect(list(a.linear(of([1, 2]), of([3, 5, 7], [4, 6, 8]), of([0.5, 0, -1])))).toEqual([11.5, 17, 22]);
    expect(list(a.linear(of([1, 2]), of([3], [4]), null))).toEqual([11]);
  });
});

describe("softmax", () => {
  it("normalises each row", () => {
    near(a.softmax(of([0, Math.log(3)], [1000, 1000])), [0.25, 0.75, 0.5, 0.5]);
  });
  it("gives 0 to masked entries and to fully masked rows", () => {
    near(a.softmax(of([5, 1, 1], [1, 2, 3]), [0, 1, 1, 0, 0, 0]), [0, 0.5, 0.5, 0, 0, 0]);
  });
});

describe("norms", () => {
  it("LayerNorm subtracts the mean and divides by the biased deviation", () => {
    near(a.normalise(of([1, 3]), "layer", 0, of([1, 2]), of([0, 1])), [-1, 3]);
    near(a.normalise(of([1, 3]), "layer", 3, of([1, 1]), null), [-0.5, 0.5]);
  });
  it("RMSNorm keeps the mean", () => {
    near(a.normalise(of([1, 7]), "rms", 0, of([5, 1]), null), [1, 1.4]);
  });
});

describe("activations", () => {
  it("equal those of torch", () => {
    // torch.nn.functional in float64
    const expected = {
      relu: [0, 0.7, 3],
      gelu: [-0.15865525393145702, 0.5306254434438489, 2.99595030590511],
      gelu_tanh: [-0.15880800939172324, 0.5305701347051167, 2.996362607918227],
      silu: [-0.2689414213699951, 0.46773144051771626, 2.8577223804672998],
    };
    for (const [name, values] of Object.entries(expected)) near(of([-1, 0.7, 3].map(a.activations[name])), values, 11);
  });
  it("erf is odd and converges to 1", () => {
    expect(a.erf(0)).toBe(0);
    expect(a.erf(0.5)).toBeCloseTo(0.5204998778130465, 14);
    expect(a.erf(-2)).toBeCloseTo(-0.9953222650189527, 14);
    expect(a.erf(5.9)).toBeCloseTo(1, 14);
    expect(a.erf(-7)).toBe(-1);
  });
});

describe("positions", () => {
  it("interleaves sines and cosines, as in the paper", () => {
    near(a.sinusoids(2, 4), [0, 1, 0, 1, Math.sin(1), Math.cos(1), Math.sin(0.01), Math.cos(0.01)]);
  });
  it("puts all sines first, as in Marian", () => {
    near(a.sinusoids(2, 4, 10000, true), [0, 0, 1, 1, Math.sin(1), Math.sin(0.01), Math.cos(1), Math.cos(0.01)]);
  });
  it("rotates pairs, and inverts the rotation", () => {
    const x = of([1, 0, 0, 2]);
    near(a.rotate(x, [Math.PI / 2, 0], [1]), [0, 0, 1, 2]);
    near(a.rotate(a.rotate(x, [0.3, 0.7], [5]), [0.3, 0.7], [5], -1), [1, 0, 0, 2]);
  });
});

describe("heads", () => {
  it("are slices of the columns, and concatenate again", () => {
    const x = of([1, 2, 3, 4], [5, 6, 7, 8]);
    expect(list(a.sliceColumns(x, 2, 2))).toEqual([3, 4, 7, 8]);
    expect(list(a.concatColumns([a.sliceColumns(x, 0, 2), a.sliceColumns(x, 2, 2)]))).toEqual(list(x));
  });
});

describe("agreement", () => {
  it("is absolute up to 1 and relative above", () => {
    expect(a.agreement(of([0.5]), of([0.500009]), 1e-5).agrees).toBe(true);
    expect(a.agreement(of([0.5]), of([0.50002]), 1e-5).agrees).toBe(false);
    expect(a.agreement(of([1000.005]), of([1000]), 1e-5).agrees).toBe(true);
  });
  it("supports infinity, and rejects NaN and other shapes", () => {
    expect(a.agreement(of([-Infinity]), of([-Infinity]), 1e-5)).toEqual({ worst: 0, agrees: true });
    expect(a.agreement(of([0]), of([-Infinity]), 1e-5).agrees).toBe(false);
    expect(a.agreement(of([Number.NaN]), of([1]), 1e-5).agrees).toBe(false);
    expect(a.agreement(of([1, 2]), of([1], [2]), 1e-5).agrees).toBe(false);
  });
});
