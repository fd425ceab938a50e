/**
 * A target that does its work once per run, however often it is called: the answer of the first call is kept
 * under the idempotency key and given again. In a real service that table stands in the database that the
 * work changes, and both are written in one transaction.
 */
import { createServer } from 'node:http'
import type { Server } from 'node:http'

export interface Target {
  readonly server: Server
  /** How often the work was really done. */
  readonly workDone: () => number
}

export function createTarget(): Target {
  const answers = new Map<string, string>()
  let count = 0

  function work(): string {
    count += 1
    return `report ${count}`
  }

  const server = createServer((request, response) => {
    const key = String(request.headers['idempotency-key'] ?? '')
    if (key === '') {
      response.writeHead(400).end('send an Idempotency-Key')
      return
    }
    const answer = answers.get(key) ?? work()
    answers.set(key, answer)
    response.end(answer)
  })
  return { server, workDone: () => count }
}
