/**
 * Why input was refused.
 *
 * Invariant: the mark is below the character that the reason refers to.
 */

import { type JSX, Show } from "solid-js";

const COLUMN = /,? \(?(?:at )?column (\d+)\)?/;

/** Why a condition was refused, with a mark below the place. */
export function FieldError(props: {
  readonly text: string;
  readonly condition: string;
}): JSX.Element {
  const column = () => Number(COLUMN.exec(props.text)?.[1] ?? 0);
  return (
    <Show when={props.text !== ""}>
      <div class="field-error" role="alert" data-testid="condition-error">
        <Show when={column() > 0}>
          <pre aria-hidden="true">{`${props.condition}\n${" ".repeat(column() - 1)}^`}</pre>
        </Show>
        <span>{props.text}</span>
      </div>
    </Show>
  );
}
