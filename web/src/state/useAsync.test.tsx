/** The state of an asynchronous load, as a component sees it. */

import { signal } from "@preact/signals";
import { render } from "preact";
import { afterEach, expect, it, vi } from "vitest";
import { useAsync } from "./useAsync";

afterEach(() => render(null, document.body));

it("an error clears the value, the next value clears the error", async () => {
  const head = signal(0);
  const fetched = async () => {
    if (head.value === 1) throw new Error("no head 1");
    return `head ${head.value}`;
  };
  function Status() {
    const { value, error } = useAsync(fetched);
    return <p>{`${value} / ${error}`}</p>;
  }
  const waitForText = (text: string) => vi.waitFor(() => expect(document.body.textContent).toBe(text));
  render(<Status />, document.body);
  await waitForText("head 0 / null");
  head.value = 1;
  await waitForText("null / no head 1");
  head.value = 2;
  await waitForText("head 2 / null");
});
