/**
 * `belfry event send`: says that something happened. Workflows whose triggers name the event begin a run
 * each, once a key.
 */
import type { BodyOf } from '@belfry/sdk'
import type { Call, Command } from '../command.ts'
import { required } from '../command.ts'
import { eventReceiptShape } from '../output/event-shapes.ts'
import { plain } from '../output/text.ts'
import { given, sayChange } from './shared.ts'

async function send(call: Call): Promise<undefined> {
  const client = await call.client()
  const body = {
    event: required(call, 'event'),
    ...given({
      key: call.flags.text('key'),
      payload: (await call.flags.json('payload')) as BodyOf<'eventSend'>['payload'],
    }),
  }
  const receipt = await client.sendEvent(body, { dryRun: call.dryRun })
  call.printer.row(receipt, eventReceiptShape)
  for (const { workflow, message } of receipt.refused) call.printer.warn(plain(`${workflow}: ${message}`))
  const count = receipt.runs.length
  const runs = `${count} workflow run${count === 1 ? '' : 's'}`
  const words = receipt.duplicate
    ? (`Kept what this key began before: ${runs}.` as const)
    : (`Sent ${receipt.event}; it began ${runs}.` as const)
  const [first] = receipt.runs
  const next =
    first === undefined ? 'belfry workflow list' : `belfry workflow-run get ${first.workflowRunId} --watch`
  sayChange(call, words, next)
}

export const eventCommands: readonly Command[] = [
  {
    noun: 'event',
    verb: 'send',
    summary: 'Say that something happened: workflows whose triggers name it begin',
    details: 'The same event with the same key a second time begins nothing more.',
    arguments: [{ name: 'event', summary: 'Name of the event, as triggers of workflows have it' }],
    flags: [
      { name: 'key', value: 'text', summary: 'Which one it is, so that it counts once' },
      {
        name: 'payload',
        value: 'json',
        summary: 'Input of the runs that it begins, as JSON, or @file, or @- for stdin',
      },
    ],
    effect: 'change',
    fieldFlags: { '/event': '<event>', '/key': '--key', '/payload': '--payload' },
    examples: [
      {
        words: 'An order came in',
        command: `belfry event send order.created --key order-17 --payload '{"order": 17}'`,
      },
    ],
    run: send,
  },
]
