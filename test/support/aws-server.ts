// An AWS of our own for one test, as far as Lambda jobs meet it: STS that gives out credentials, and Lambda
// that answers whatever a test wants, also what the real one would not. It keeps what it was sent.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface AwsCall {
  readonly service: 'sts' | 'lambda'
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** The access key that signed it. */
  readonly accessKeyId: string | undefined
}

export type AwsBehaviour = (response: ServerResponse, call: AwsCall) => void

export interface AwsServer {
  readonly url: string
  readonly calls: readonly AwsCall[]
  callsOf(service: AwsCall['service']): readonly AwsCall[]
  /** What calls of a service get, one after the other; the last one stays. */
  program(service: AwsCall['service'], ...behaviours: readonly AwsBehaviour[]): void
  close(): Promise<void>
}

export const invoked =
  (payload: unknown, headers: Readonly<Record<string, string>> = {}): AwsBehaviour =>
  (response) =>
    void response
      .writeHead(200, { 'content-type': 'application/json', ...headers })
      .end(typeof payload === 'string' ? payload : JSON.stringify(payload))

/** As REST services of AWS say what went wrong. */
export const refused =
  (
    status: number,
    type: string,
    message = 'because',
    headers: Readonly<Record<string, string>> = {},
  ): AwsBehaviour =>
  (response) =>
    void response
      .writeHead(status, { 'content-type': 'application/json', 'x-amzn-errortype': type, ...headers })
      .end(JSON.stringify({ Type: 'User', Message: message, message }))

/** As STS does. */
export const refusedBySts =
  (status: number, code: string): AwsBehaviour =>
  (response) =>
    void response
      .writeHead(status, { 'content-type': 'text/xml' })
      .end(
        `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>` +
          `<Code>${code}</Code><Message>no</Message></Error><RequestId>r</RequestId></ErrorResponse>`,
      )

/** Credentials that last so long; each time other ones: `ROLE1`, `ROLE2`, … */
export function assumed(lastsMs = 3_600_000): AwsBehaviour {
  let given = 0
  return (response) => {
    const expiration = new Date(Date.now() + lastsMs).toISOString()
    response
      .writeHead(200, { 'content-type': 'text/xml' })
      .end(
        '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>' +
          '<Credentials>' +
          `<AccessKeyId>ROLE${++given}</AccessKeyId><SecretAccessKey>role-secret</SecretAccessKey>` +
          `<SessionToken>role-session</SessionToken><Expiration>${expiration}</Expiration></Credentials>` +
          '<AssumedRoleUser><AssumedRoleId>a:b</AssumedRoleId>' +
          '<Arn>arn:aws:sts::123456789012:assumed-role/x/b</Arn>' +
          `</AssumedRoleUser></AssumeRoleResult></AssumeRoleResponse>`,
      )
  }
}

async function readCall(request: IncomingMessage): Promise<AwsCall> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const headers = Object.entries(request.headers).map(([name, value]): [string, string] => [
    name,
    String(value),
  ])
  const path = request.url ?? ''
  return {
    service: path.startsWith('/2015-03-31/') ? 'lambda' : 'sts',
    path,
    headers: Object.fromEntries(headers),
    body: Buffer.concat(chunks).toString('utf8'),
    accessKeyId: /Credential=([^/]+)\//.exec(request.headers.authorization ?? '')?.[1],
  }
}

export async function openAwsServer(): Promise<AwsServer> {
  const calls: AwsCall[] = []
  const programs = new Map<AwsCall['service'], AwsBehaviour[]>([
    ['sts', [assumed()]],
    ['lambda', [invoked('{}')]],
  ])
  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const call = await readCall(request)
    calls.push(call)
    const program = programs.get(call.service) ?? []
    const [next] = program.length > 1 ? program.splice(0, 1) : program
    next?.(response, call)
  }
  const server = createServer((request, response) => void serve(request, response))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    callsOf: (service) => calls.filter((call) => call.service === service),
    program: (service, ...behaviours) => void programs.set(service, [...behaviours]),
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
