// The reference page of trigger rules: their truth tables, rendered from the rules themselves
// (packages/server/src/domain/workflow/trigger-rules.ts).
import { defaultTriggerRule, type EndedTaskState, triggerRules } from '@belfry/contract'
import {
  countParent,
  judgeRule,
  noParents,
  startsWithoutWaiting,
} from '../../packages/server/src/domain/workflow/trigger-rules.ts'

const letters = {
  S: 'succeeded',
  F: 'failed',
  U: 'upstream_failed',
  K: 'skipped',
} as const satisfies Record<string, EndedTaskState>
const pairs = ['SS', 'SF', 'SU', 'SK', 'FF', 'FU', 'FK', 'UU', 'UK', 'KK']
const words = { run: 'run', skip: 'skip', upstream_failed: 'fail', wait: '' } as const

/** Of two ended parents in these states. */
function verdict(rule: (typeof triggerRules)[number], pair: string): string {
  const counts = noParents(pair.length)
  for (const letter of pair.split('') as (keyof typeof letters)[]) countParent(counts, letters[letter], false)
  return words[judgeRule(rule, counts)]
}

/** One of two parents has ended in this state. */
function verdictBesideOne(rule: (typeof triggerRules)[number], state: EndedTaskState): string {
  const counts = noParents(2)
  countParent(counts, state, false)
  const found = judgeRule(rule, counts)
  return found === 'wait' ? 'waits' : words[found]
}

const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`

export function renderTriggerRules(): string {
  const rows = triggerRules.map((rule) =>
    row([
      `\`${rule}\`${rule === defaultTriggerRule ? ' (default)' : ''}`,
      ...pairs.map((pair) => verdict(rule, pair)),
      startsWithoutWaiting(rule) ? 'as soon as it holds' : 'when all parents have ended',
    ]),
  )
  const early = triggerRules.map((rule) =>
    row([`\`${rule}\``, ...Object.values(letters).map((state) => verdictBesideOne(rule, state))]),
  )
  return `# Trigger rules

<!-- Generated from packages/server/src/domain/workflow/trigger-rules.ts; do not edit. -->

When a task of a workflow starts, from the states of the tasks that it needs: what happens with two
parents, both ended. **S** succeeded, **F** failed or canceled, **U** upstream_failed, **K** skipped or not
run. *run*: it starts; *skip*: it is \`skipped\`; *fail*: it is \`upstream_failed\`. Only direct parents
count, and the order in which they ended does not. A failure that is allowed (\`allowFailure\`) counts as S.
A parent that runs for each item of a list counts item by item, once all of them have ended: \`one_success\`
runs over [S, F], \`all_failed\` does not. A task that needs no other starts at once.

## Both parents have ended

${row(['rule', ...pairs, 'judged'])}
${row(['---', ...pairs.map(() => '---'), '---'])}
${rows.join('\n')}

## One has ended, the other is at work

${row(['rule', ...Object.keys(letters)])}
${row(['---', ...Object.keys(letters).map(() => '---')])}
${early.join('\n')}

## A parent that waits, ends, or is stopped

| what becomes of a parent | counts as |
| --- | --- |
| succeeded | S |
| failed, all attempts used up | F |
| failed, with \`allowFailure\` | S |
| canceled by hand, or because the run was stopped | F |
| rejected, or out of time, as its \`onReject\` or \`onTimeout\` says | F, K or S |
| skipped: by itself (\`skip()\`), by its rule, by \`when\`, by a branch, by hand, or for want of items | K |
| upstream_failed | U |
| not run: the run failed fast before it, or it was not asked for | K |
| marked by hand | as it is marked |
`
}
