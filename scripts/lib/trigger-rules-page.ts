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

const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`

export function renderTriggerRules(): string {
  const rows = triggerRules.map((rule) =>
    row([
      `\`${rule}\`${rule === defaultTriggerRule ? ' (default)' : ''}`,
      ...pairs.map((pair) => verdict(rule, pair)),
      startsWithoutWaiting(rule) ? 'as soon as it holds' : 'when all parents have ended',
    ]),
  )
  return `# Trigger rules

<!-- Generated from packages/server/src/domain/workflow/trigger-rules.ts; do not edit. -->

When a task of a workflow starts, from the states of the tasks that it needs: what happens with two
parents, both ended. **S** succeeded, **F** failed or canceled, **U** upstream_failed, **K** skipped or not
run. *run*: it starts; *skip*: it is \`skipped\`; *fail*: it is \`upstream_failed\`. Only direct parents
count, and the order in which they ended does not. A failure that is allowed (\`allowFailure\`) counts as S.
A task that needs no other starts at once.

${row(['rule', ...pairs, 'judged'])}
${row(['---', ...pairs.map(() => '---'), '---'])}
${rows.join('\n')}
`
}
