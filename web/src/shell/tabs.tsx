/** The tabs of the views, the current view, and its description. */

import { useEffect } from "preact/hooks";
import { language, view } from "../state/state";
import type { Trace } from "../trace/trace";
import { chosenView, GROUPS, views } from "../views/index";
import { type Bundle, bundleError, retryBundle, viewRenderer } from "../views/bundles";
import { type Message, t } from "../i18n/i18n";

export function Tabs({ trace }: { readonly trace: Trace | null }) {
  const shown = views.filter((each) => !each.optional || each === chosenView() || (trace && each.supports(trace.info)));
  const moveTab = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const next = shown[(shown.indexOf(chosenView()) + by + shown.length) % shown.length];
    view.value = next.id;
    document.getElementById(`tab-${next.id}`)?.focus();
  };
  const chosenId = chosenView().id;
  useEffect(() => {
    const show = () => document.getElementById(`tab-${chosenId}`)?.scrollIntoView?.({ block: "nearest", inline: "nearest" });
    show();
    void document.fonts?.ready.then(show); // the font changes the widths
  }, [chosenId, language.value]);
  return (
    <div class="tabs" role="tablist" aria-label={t({ ko: "보기", en: "views" })} onKeyDown={moveTab}>
      {shown.map(({ id, title, supports, bundle, group }, i) => {
        const chosen = chosenView().id === id;
        const starts = shown[i - 1]?.group !== group;
        const isGroup = starts && shown[i + 1]?.group === group; // a single tab needs no other name
        return (
          <button
            key={id}
            id={`tab-${id}`}
            type="button"
            role="tab"
            class={["tab", starts && "starts", trace && !supports(trace.info) && "unavailable"].filter(Boolean).join(" ")}
            data-group={isGroup ? t(GROUPS[group]) : undefined}
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
  const { id, title, description, supports, missing, bundle } = chosenView();
  const shows = supports(trace.info);
  return (
    <section class="stage-box" id="stage" role="tabpanel" aria-labelledby={`tab-${id}`}>
      {shows ? <p class="about">{t(description)}</p> : null}
      <div class="stage" data-role="stage" data-view={id}>
        {shows ? <ViewStage key={id} id={id} part={bundle} trace={trace} /> : <Missing title={title} text={missing} />}
      </div>
    </section>
  );
}

/** A view that this trace has no data for: why, and what to do. */
function Missing({ title, text }: { readonly title: Message; readonly text: Message }) {
  return (
    <div class="invitation about missing">
      <h2>{t(title)}</h2>
      <p>{t(text)}</p>
    </div>
  );
}

/** Renders the view; its script may still be loading. */
function ViewStage({ id, part, trace }: { readonly id: string; readonly part: Bundle | null; readonly trace: Trace }) {
  const Stage = viewRenderer(id, part)?.Stage;
  if (Stage) return <Stage trace={trace} />;
  const error = bundleError(part);
  return <p role={error ? "alert" : "status"}>{error || "…"}</p>;
}
