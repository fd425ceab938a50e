/**
 * What answers when no route does: unknown paths (with what was probably meant), wrong methods, and requests
 * that are no HTTP. All of them are problems like any other.
 */
import type { Socket } from 'node:net'
import { BelfryError, nearest, routes, toProblem } from '@belfry/contract'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { guardingHeaders } from '../guarding-headers.ts'
import { problemType, sendProblem } from '../problem.ts'

type Known = { readonly pattern: RegExp; readonly path: string; readonly methods: Set<string> }

function knownPaths(): readonly Known[] {
  const byPath = new Map<string, Known>()
  for (const { path, method } of Object.values(routes)) {
    const pattern = new RegExp(`^${path.replaceAll(/:[^/]+/g, '[^/]+')}$`)
    const known = byPath.get(path) ?? { pattern, path, methods: new Set<string>() }
    known.methods.add(method)
    if (method === 'GET') known.methods.add('HEAD')
    byPath.set(path, known)
  }
  return [...byPath.values()]
}

export function answerTheRest(app: FastifyInstance): void {
  const paths = knownPaths()
  app.setErrorHandler((error, request, reply) => sendProblem(error, request, reply))
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?')[0] ?? ''
    const known = paths.find(({ pattern }) => pattern.test(path))
    if (known === undefined) return sendProblem(unknownPath(request, path, paths), request, reply)
    const allowed = [...known.methods].sort().join(', ')
    void reply.header('allow', allowed)
    const message = `${known.path} does not take ${request.method}; it takes ${allowed}.`
    return sendProblem(new BelfryError('method_not_allowed', message), request, reply)
  })
}

function unknownPath({ method }: FastifyRequest, path: string, paths: readonly Known[]): BelfryError {
  const meant = nearest(
    path,
    paths.map((known) => known.path),
  )
  const fix = meant === undefined ? 'GET /v1/openapi.json lists what there is.' : `Did you mean ${meant}?`
  return new BelfryError('not_found', `There is no ${method} ${path.slice(0, 128)} here. ${fix}`)
}

/** For what the HTTP parser refuses, before there is a request to speak of. */
export function refuseRawRequest(error: { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return
  const tooLarge = error.code === 'HPE_HEADER_OVERFLOW'
  const detail = tooLarge
    ? 'The headers are too large; send less.'
    : 'This is not a valid HTTP/1.1 request; mend the client.'
  const problem = toProblem(new BelfryError('invalid_request', detail), 'none')
  const body = JSON.stringify(problem)
  const head = [
    'HTTP/1.1 400 Bad Request',
    `Content-Type: ${problemType}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
    ...Object.entries(guardingHeaders).map(([name, value]) => `${name}: ${value}`),
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}
