// The reference page of run states, rendered from the one table of transitions. docs/reference/run-states.md
// is this text; a test tells when it is not.
import type { RunState } from '@belfry/contract'
import { isTerminal, runStates } from '@belfry/contract'
import type { Transition } from '../../packages/server/src/domain/transitions.ts'
import { successorsOf, transitions } from '../../packages/server/src/domain/transitions.ts'

const code = (text: string): string => `\`${text}\``
const stateName = (state: RunState | null): string => (state === null ? '(new)' : code(state))

function stateRow(state: RunState): string {
  const next = successorsOf(state).map(code).join(', ')
  return `| ${code(state)} | ${isTerminal(state) ? 'yes' : 'no'} | ${next === '' ? 'nothing' : next} |`
}

function transitionRow({ from, to, by, when }: Transition): string {
  return `| ${stateName(from)} | ${code(to)} | ${by} | ${when} |`
}

/** The whole page, as Markdown. */
export function renderRunStates(): string {
  return `# Run states

<!-- Generated from packages/server/src/domain/transitions.ts; do not edit. -->

A run is in exactly one of these states. Nothing follows a terminal state.

| state | terminal | may become |
|---|---|---|
${runStates.map(stateRow).join('\n')}

## Transitions

| from | to | by | when |
|---|---|---|---|
${transitions.map(transitionRow).join('\n')}
`
}
