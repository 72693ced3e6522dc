/** Formulas as MathML: `math("Q =", sub("X W", "Q"))`. */

import type { ComponentChildren, JSX } from "preact";

type Part = string | JSX.Element;

/** Words and signs as MathML elements: identifiers, numbers, operators. */
function tokens(part: Part): ComponentChildren {
  if (typeof part !== "string") return part;
  return part.split(" ").map((word) => {
    if (/^\d[\d.,]*$/.test(word)) return <mn>{word}</mn>;
    if (/^\p{L}/u.test(word)) return <mi>{word}</mi>;
    return <mo>{word}</mo>;
  });
}

export function row(...parts: readonly Part[]): JSX.Element {
  return <mrow>{parts.map(tokens)}</mrow>;
}

export function math(...parts: readonly Part[]): JSX.Element {
  return <math display="block">{row(...parts)}</math>;
}

export function sub(base: Part, below: Part): JSX.Element {
  return (
    <msub>
      {row(base)}
      {row(below)}
    </msub>
  );
}

export function sup(base: Part, above: Part): JSX.Element {
  return (
    <msup>
      {row(base)}
      {row(above)}
    </msup>
  );
}

export function frac(above: Part, below: Part): JSX.Element {
  return (
    <mfrac>
      {row(above)}
      {row(below)}
    </mfrac>
  );
}

export function root(inside: Part): JSX.Element {
  return <msqrt>{row(inside)}</msqrt>;
}
