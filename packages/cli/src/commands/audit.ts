/**
 * `belfry audit …`: who did what; the
 * chain exported and verified.
 */
import { auditOutcomes } from '@belfry/contract'
import type { Call, Command } from '../command.ts'
import { auditEntryShape, auditStatusShape } from '../output/audit-shapes.ts'
import { verify } from './audit-verify.ts'
import { given, listFlags, pageQuery, printList } from './shared.ts'

async function list(call: Call): Promise<undefined> {
  const outcome = call.flags.on('refused') ? ('refused' as const) : undefined
  const query = given({
    actor: call.flags.text('actor'),
    action: call.flags.text('action'),
    subject: call.flags.text('subject'),
    outcome,
    after: call.flags.pastInstant('since'),
    before: call.flags.pastInstant('until'),
  })
  const items = (await call.client()).audit.list({ ...query, ...pageQuery(call) })
  await printList(call, items, auditEntryShape, 'Nothing is on record that fits.')
}

async function status(call: Call): Promise<undefined> {
  call.printer.one(await (await call.client()).audit.status(), auditStatusShape)
}

/** JSON lines on standard output, whatever the format: what `verify --file` reads. */
async function exportAll(call: Call): Promise<undefined> {
  let count = 0
  for await (const record of (await call.client()).audit.export()) {
    call.io.stdout.write(`${JSON.stringify(record)}\n`)
    count += 1
  }
  call.printer.say(`${count} records.`)
}

export const auditCommands: readonly Command[] = [
  {
    noun: 'audit',
    verb: 'list',
    isDefault: true,
    summary: 'Who did what, and what was refused, newest first',
    flags: [
      { name: 'actor', value: 'name', summary: 'Name or id of who did it' },
      { name: 'action', value: 'action', summary: '`schedule.update`, or `schedule` for all of that kind' },
      { name: 'subject', value: 'name', summary: 'Name or id of what it was done to' },
      { name: 'refused', summary: `Only what was ${auditOutcomes[1]}` },
      { name: 'since', value: 'time', summary: 'From this time on: 1h (ago), or 2026-12-01T00:00:00Z' },
      { name: 'until', value: 'time', summary: 'Before this time' },
      ...listFlags,
    ],
    effect: 'read',
    examples: [
      { words: 'The last hour', command: 'belfry audit list --since 1h' },
      { words: 'What was refused', command: 'belfry audit list --refused' },
      { words: 'All that happened to a schedule', command: 'belfry audit list --subject nightly' },
    ],
    run: list,
  },
  {
    noun: 'audit',
    verb: 'status',
    summary: 'How long the chain is, how much of it is signed, and the public keys',
    effect: 'read',
    examples: [{ words: 'The keys to keep a copy of', command: 'belfry audit status' }],
    run: status,
  },
  {
    noun: 'audit',
    verb: 'export',
    summary: 'The whole chain with what attests it, as JSON lines',
    effect: 'read',
    examples: [{ words: 'As lines; `> audit.jsonl` keeps them', command: 'belfry audit export' }],
    run: exportAll,
  },
  {
    noun: 'audit',
    verb: 'verify',
    summary: 'Find out whether the audit log was tampered with, and where',
    details:
      'Exit code 1 where it was. Without --file the chain is fetched from the server and judged here. What ' +
      'was added since the last signature is bound by the chain alone.',
    flags: [
      { name: 'file', value: 'path', summary: 'Judge an export instead of asking a server', repeat: true },
      {
        name: 'kept',
        value: 'path',
        summary: 'A copy kept elsewhere (an export, or the file of the server) to judge it by',
        repeat: true,
      },
      {
        name: 'public-key',
        value: 'key',
        summary: 'Key that is trusted: base64 as `belfry audit status` shows it, or the path of a PEM file',
        repeat: true,
      },
    ],
    effect: 'read',
    examples: [
      {
        words: 'Against a copy',
        command: 'belfry audit verify --public-key audit.pem --kept /mnt/worm/audit.jsonl',
      },
      { words: 'Without a server', command: 'belfry audit verify --file audit.jsonl --public-key audit.pem' },
    ],
    run: verify,
  },
]
