/**
 * Messages of the page: a lost connection across the top, transient notices at the bottom.
 *
 * Invariant: never modal, never over a control that is in use; text only.
 */

import { createMemo, createSignal, For, type JSX, onCleanup, Show } from "solid-js";
import { printable, quoted } from "@/base/printable";
import { type NewRun, offerWords } from "@/store/page/new_run";
import type { Store } from "@/store/page/store";
import { IconButton } from "@/widgets/icon";
import { CONTROLLER_GRACE_S } from "@/wire/types.gen";

export function LinkBanner(props: { readonly store: Store; onRetry(): void }): JSX.Element {
  const [now, setNow] = createSignal(Date.now());
  const timer = setInterval(() => setNow(Date.now()), 500);
  onCleanup(() => clearInterval(timer));
  const words = (): string | undefined => {
    const link = props.store.link();
    switch (link.kind) {
      case "lost": {
        const left = Math.ceil(CONTROLLER_GRACE_S - (now() - link.since) / 1000);
        if (props.store.model()?.info.state !== "live") return "Connection lost. Reconnecting…";
        if (props.store.session()?.phase !== "stopped") {
          return "Connection lost. The program continues without the page; reconnecting…";
        }
        return left > 0
          ? `Connection lost. If the program is still running, it continues in ${left} s; reconnecting…`
          : "Connection lost. Reconnecting… If the program was still running, it has continued by itself.";
      }
      case "ended": {
        const path = props.store.model()?.info.recording;
        return path
          ? `nodescope has ended. This opens the run again: nodescope open ${quoted(path)}`
          : "nodescope has ended. Start it again to see more.";
      }
      case "refused":
        return link.message || "The server refused this page. Reload it.";
      case "skew":
        return [
          `This page speaks protocol ${link.ours}, the server ${link.theirs || "another"}.`,
          "Reload the page; if that does not help, reinstall nodescope.",
        ].join(" ");
      default:
        return undefined;
    }
  };
  return (
    <Show when={words()}>
      {(text) => (
        <div
          class="banner"
          classList={{ calm: props.store.link().kind === "ended" }}
          role="alert"
          data-testid="banner"
        >
          <span
            class={`lamp ${props.store.link().kind === "ended" ? "off" : "bad"}`}
            aria-hidden="true"
          />
          <span>{text()}</span>
          <Show when={props.store.link().kind === "lost"}>
            <button type="button" class="btn" onClick={() => props.onRetry()}>
              Try now
            </button>
          </Show>
        </div>
      )}
    </Show>
  );
}

/** A banner if the program dies while it is watched; if it died before, its summary says so. */
export function LostRun(props: { readonly store: Store }): JSX.Element {
  const [closed, setClosed] = createSignal("");
  let watched = "";
  const shown = createMemo(() => {
    const info = props.store.model()?.info;
    if (info?.state === "live") watched = info.id;
    const open = props.store.link().kind === "open" && info?.state === "lost";
    return open && watched === info.id && closed() !== info.id ? info : undefined;
  });
  return (
    <Show when={shown()}>
      {(info) => (
        <div class="banner" role="alert" data-testid="lost-run">
          <span class="lamp bad" aria-hidden="true" />
          <span>
            The program was killed or crashed. Everything recorded until then can still be
            inspected.
          </span>
          <IconButton small icon="close" label="Close" onClick={() => setClosed(info().id)} />
        </div>
      )}
    </Show>
  );
}

/** A fault of the recording, as long as it lasts: a full disk, damage. */
export function RecordingTrouble(props: { readonly store: Store }): JSX.Element {
  const [closed, setClosed] = createSignal("");
  const shown = () => {
    const trouble = props.store.model()?.info.trouble ?? "";
    return trouble !== closed() ? trouble : "";
  };
  return (
    <Show when={shown()}>
      {(trouble) => (
        <div class="banner" role="alert" data-testid="recording-trouble">
          <span class="lamp bad" aria-hidden="true" />
          <span>{sentence(printable(trouble(), 500))}</span>
          <IconButton small icon="close" label="Close" onClick={() => setClosed(trouble())} />
        </div>
      )}
    </Show>
  );
}

/** A run that began while another one is shown. */
export function NewRunOffer(props: { readonly newRun: NewRun }): JSX.Element {
  return (
    <Show when={props.newRun.offered()}>
      {(run) => (
        <div class="banner calm" role="status" data-testid="new-run">
          <span class="lamp ok" aria-hidden="true" />
          <span>{offerWords(run())}</span>
          <button type="button" class="btn" onClick={() => props.newRun.show()}>
            Show it
          </button>
          <IconButton small icon="close" label="Close" onClick={() => props.newRun.dismiss()} />
        </div>
      )}
    </Show>
  );
}

function sentence(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
}

export function Notices(props: { readonly store: Store }): JSX.Element {
  return (
    <div class="notices" role="status" aria-live="polite">
      <For each={props.store.notices()}>
        {(notice) => (
          <div class={`notice ${notice.tone}`} data-testid="notice">
            <span>{notice.text}</span>
            <IconButton
              small
              icon="close"
              label="Dismiss"
              onClick={() => props.store.board.dismiss(notice.id)}
            />
          </div>
        )}
      </For>
    </div>
  );
}
