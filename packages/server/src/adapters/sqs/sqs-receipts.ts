/**
 * What becomes of messages that were received, ten a call. None of it throws: what could not be done, happens
 * by itself when the time is over for which the messages are held.
 */
import type { SqsLink } from './sqs-link.ts'

const messagesOfCall = 10

export interface SqsReceipt {
  readonly url: string
  readonly handle: string
}

interface Entry {
  readonly Id: string
  readonly ReceiptHandle: string
}

export function deleteMessages(link: SqsLink, receipts: readonly SqsReceipt[]): Promise<void> {
  return inCalls(receipts, (url, Entries) =>
    link.call({
      action: 'DeleteMessage',
      url,
      send: (client, sdk, abortSignal) =>
        client.send(new sdk.DeleteMessageBatchCommand({ QueueUrl: url, Entries }), { abortSignal }),
    }),
  )
}

/** After `seconds` somebody gets them again. */
export function changeVisibility(
  link: SqsLink,
  receipts: readonly SqsReceipt[],
  seconds: number,
): Promise<void> {
  return inCalls(receipts, (url, entries) => {
    const Entries = entries.map((entry) => ({ ...entry, VisibilityTimeout: seconds }))
    return link.call({
      action: 'ChangeMessageVisibility',
      url,
      send: (client, sdk, abortSignal) =>
        client.send(new sdk.ChangeMessageVisibilityBatchCommand({ QueueUrl: url, Entries }), { abortSignal }),
    })
  })
}

async function inCalls(
  receipts: readonly SqsReceipt[],
  call: (url: string, entries: Entry[]) => Promise<unknown>,
): Promise<void> {
  const calls: Promise<unknown>[] = []
  for (const [url, ofUrl] of Map.groupBy(receipts, (receipt) => receipt.url)) {
    for (let at = 0; at < ofUrl.length; at += messagesOfCall) {
      const some = ofUrl.slice(at, at + messagesOfCall)
      calls.push(
        call(
          url,
          some.map(({ handle }, index) => ({ Id: String(index), ReceiptHandle: handle })),
        ),
      )
    }
  }
  await Promise.allSettled(calls)
}
