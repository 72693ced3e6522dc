/** The tabs of the views, the current view, and its description. */

import { useEffect } from "preact/hooks";
import { view } from "../state/state";
import type { Trace } from "../trace/trace";
import { views } from "../views/index";
import { type Bundle, bundleError, retryBundle, viewRenderer } from "../views/bundles";
import { t } from "../i18n/i18n";
import { NoteBar } from "./notes";

/** The current view. */
export function chosenView() {
  return views.find(({ id }) => id === view.value) ?? views[1];
}

export function Tabs({ trace }: { readonly trace: Trace | null }) {
  const moveTab = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const next = views[(views.indexOf(chosenView()) + by + views.length) % views.length];
    view.value = next.id;
    document.getElementById(`tab-${next.id}`)?.focus();
  };
  const chosenId = chosenView().id;
  useEffect(() => {
    const show = () => document.getElementById(`tab-${chosenId}`)?.scrollIntoView?.({ block: "nearest", inline: "nearest" });
    show();
    void document.fonts?.ready.then(show); // the font changes the widths
  }, [chosenId]);
  return (
    <div class="tabs" role="tablist" aria-label={t({ ko: "보기", en: "views" })} onKeyDown={moveTab}>
      {views.map(({ id, title, supports, bundle }, i) => {
        const chosen = chosenView().id === id;
        return (
          <button
            key={id}
            id={`tab-${id}`}
            type="button"
            role="tab"
            class={trace && !supports(trace.info) ? "tab unavailable" : "tab"}
            data-role="tab"
            data-view={id}
            aria-selected={chosen}
            aria-controls="stage"
            aria-keyshortcuts={String(i)}
            tabIndex={chosen ? 0 : -1}
            onClick={() => {
              retryBundle(bundle);
              view.value = id;
            }}
          >
            {t(title)}
          </button>
        );
      })}
    </div>
  );
}

export function Stage({ trace }: { readonly trace: Trace }) {
  const { id, description, supports, missing, bundle } = chosenView();
  const shows = supports(trace.info);
  return (
    <section class="stage-box" id="stage" role="tabpanel" aria-labelledby={`tab-${id}`}>
      <p class={shows ? "about" : "about missing"}>{t(shows ? description : missing)}</p>
      <div class="stage" data-role="stage" data-view={id}>
        {shows ? <ViewStage key={id} id={id} part={bundle} trace={trace} /> : null}
      </div>
      <NoteBar trace={trace} />
    </section>
  );
}

/** Renders the view; its script may still be loading. */
function ViewStage({ id, part, trace }: { readonly id: string; readonly part: Bundle | null; readonly trace: Trace }) {
  const Stage = viewRenderer(id, part)?.Stage;
  if (Stage) return <Stage trace={trace} />;
  const error = bundleError(part);
  return <p role={error ? "alert" : "status"}>{error || "…"}</p>;
}
