/**
 * How secrets look to people: names, versions and grants, in lists and one by one. There is no value to
 * show.
 */
import type { Secret, SecretGrant, SecretSummary } from '@belfry/contract'
import type { Shape } from './printer.ts'
import { timeWithDistance } from './times.ts'

const kindWords: Readonly<Record<SecretGrant['grantee']['kind'], string>> = {
  job: 'job',
  workflow: 'workflow',
  serviceAccount: 'service account',
}

function grantWords({ grantee, targets }: SecretGrant): string {
  const name = grantee.name ?? `${grantee.id} (deleted)`
  return `${kindWords[grantee.kind]} ${name}: ${targets === null ? 'anywhere' : targets.join('; ')}`
}

export const secretSummaryShape: Shape<SecretSummary> = {
  name: (secret) => secret.name,
  columns: [
    { title: 'NAME', cell: (secret) => secret.name, flexible: true },
    { title: 'VERSION', cell: (secret) => String(secret.version), align: 'right' },
    { title: 'GRANTS', cell: (secret) => String(secret.grants), align: 'right' },
    { title: 'CHANGED', cell: (secret, clock) => timeWithDistance(secret.updatedAt, clock) },
    { title: 'DESCRIPTION', cell: (secret) => secret.description, flexible: true },
  ],
  fields: (secret, clock) => [
    ['Name', secret.name],
    ['Id', secret.id],
    ['Version', String(secret.version)],
    ['Changed', timeWithDistance(secret.updatedAt, clock)],
  ],
}

export const secretShape: Shape<Secret> = {
  name: (secret) => secret.name,
  columns: secretSummaryShape.columns.map((column) => ({
    ...column,
    cell: (secret, clock) => column.cell({ ...secret, grants: secret.grants.length }, clock),
  })),
  fields: (secret, clock) => [
    ['Name', secret.name],
    ['Id', secret.id],
    ['Description', secret.description || '-'],
    ['Version', String(secret.version)],
    ...secret.versions.map((each): [string, string] => [
      `Version ${each.version}`,
      `by ${each.createdBy}, ${timeWithDistance(each.createdAt, clock)}`,
    ]),
    ...(secret.grants.length === 0
      ? [['Granted to', 'nothing yet: belfry secret grant'] as [string, string]]
      : secret.grants.map((grant): [string, string] => ['Granted to', grantWords(grant)])),
    ['Changed', timeWithDistance(secret.updatedAt, clock)],
  ],
}
