// Marks that other dialects know and this one lacks, told by name: people bring expressions from elsewhere,
// and "not a number" would not help them. Refusing also keeps a mark from meaning something else in silence.

import type { CronDialectRules, CronFieldRule } from './cron-dialect.ts'

const ADVICE = 'write numbers, or choose the dialect unix, quartz or eventbridge'

/** What is wrong with an item because of a mark that the dialect lacks, or undefined. */
export function foreignMark(
  item: string,
  rule: CronFieldRule,
  dialect: CronDialectRules,
): string | undefined {
  if (item.includes('?')) {
    return dialect.questionMark === 'none' ? 'this dialect has no "?": write *' : '"?" stands alone: write ?'
  }
  if (item.includes('~')) return 'this dialect has no "~": write a value, and spread the load by a jitter'
  if (!dialect.hash && /^H(?:$|[(/])/.test(item))
    return 'this dialect has no H: write a value, or choose the dialect jenkins'
  const upper = item.toUpperCase()
  if (rule.name === 'dayOfMonth' && dialect.monthDays === 'none' && /^(?:L(?:-\d+)?W?|\d+W|W)$/.test(upper))
    return `this dialect has no L or W: ${ADVICE}`
  if (rule.name === 'dayOfWeek' && dialect.weekdays === 'none' && /^(?:\d|[A-Z]{3})?(?:L|#\d*)$/.test(upper))
    return `this dialect has no L or #: ${ADVICE}`
  return undefined
}
