/** What a matrix was made of, small: the row and the column that made the cell in focus are lit. */

import { Heat } from "./heat";
import type { Spot } from "./spot";
import type { Operand } from "./steps";

export function Operands({ of, focus }: { readonly of: readonly Operand[]; readonly focus: Spot }) {
  return (
    <div class="calculation-operands">
      {of.map(({ name, numbers, light }) => (
        <figure key={name}>
          <Heat label={name} numbers={numbers} rows={[]} width={130} height={96} focus={focus} locked={focus} light={light} />
          <figcaption>
            {name}{" "}
            <small>
              ({numbers.rows}, {numbers.columns})
            </small>
          </figcaption>
        </figure>
      ))}
    </div>
  );
}
