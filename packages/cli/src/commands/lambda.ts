/**
 * `belfry lambda …`: what an account of AWS has to know before Belfry may call its functions. Jobs themselves
 * are made by `belfry job create --lambda`.
 */
import type { LambdaAccess } from '@belfry/contract'
import type { Call, Command } from '../command.ts'
import type { Shape } from '../output/printer.ts'

const accessShape: Shape<LambdaAccess> = {
  name: ({ externalId }) => externalId,
  columns: [{ title: 'EXTERNAL ID', cell: ({ externalId }) => externalId }],
  fields: ({ enabled, externalId, principal, functions, regions }) => [
    ['Set up', enabled ? 'yes' : 'no: the operator sets BELFRY_LAMBDA_FUNCTIONS and credentials'],
    ['External id', externalId],
    ['Principal', principal ?? 'not said: the operator sets BELFRY_LAMBDA_PRINCIPAL'],
    ['Functions', functions.length === 0 ? 'none' : functions.join(', ')],
    ['Regions', regions.length === 0 ? 'none' : regions.join(', ')],
  ],
}

/** What the trust policy of a role has to be, for IAM. */
export function trustPolicy({ externalId, principal }: Pick<LambdaAccess, 'externalId' | 'principal'>) {
  return {
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Allow',
        Principal: { AWS: principal ?? 'arn:aws:iam::<account of the operator>:user/<belfry>' },
        Action: 'sts:AssumeRole',
        Condition: { StringEquals: { 'sts:ExternalId': externalId } },
      },
    ],
  }
}

async function show(call: Call): Promise<undefined> {
  const access = await (await call.client()).lambda.access()
  call.printer.one(access, accessShape)
}

async function policy(call: Call): Promise<undefined> {
  const access = await (await call.client()).lambda.access()
  const wanted = trustPolicy(access)
  call.printer.value(wanted, JSON.stringify(wanted, null, 2).split('\n'))
}

export const lambdaCommands: readonly Command[] = [
  {
    noun: 'lambda',
    verb: 'show',
    summary: 'Show the external id of the tenant, and which functions of AWS Lambda may be called',
    effect: 'read',
    isDefault: true,
    examples: [{ words: 'What a role must ask for', command: 'belfry lambda show' }],
    run: show,
  },
  {
    noun: 'lambda',
    verb: 'trust-policy',
    summary: 'Print the trust policy for a role that Belfry may assume, as JSON for IAM',
    effect: 'read',
    examples: [
      { words: 'For `aws iam create-role`; `> trust.json` keeps it', command: 'belfry lambda trust-policy' },
    ],
    run: policy,
  },
]
