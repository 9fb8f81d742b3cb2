"""The bank as a service: `greenroom run examples.transfer_workflow.service:service`."""

from typing import Annotated

from fastapi import APIRouter, Depends

from examples.transfer_workflow.application import Transfer, WalletEntity
from examples.transfer_workflow.domain import TransferState
from greenroom import AsyncComponentClient, Service, async_component_client, mcp_endpoint


@mcp_endpoint(
    path="/mcp",
    server_name="bank",
    server_version="1.0.0",
    instructions="Open wallets and move money between them. Only people approve transfers.",
    tools=[WalletEntity, Transfer],
)
class BankMcp:
    """What a model may do: it has no tool to approve anything."""


people = APIRouter(tags=["people"])
Client = Annotated[AsyncComponentClient, Depends(async_component_client)]


@people.post("/transfers/{transfer_id}/approve")
async def approve(transfer_id: str, by: str, client: Client) -> TransferState:
    """A person says yes."""
    return await client.for_workflow(Transfer, transfer_id).ask(Transfer.approve, by)


@people.post("/transfers/{transfer_id}/reject")
async def reject(transfer_id: str, by: str, client: Client) -> TransferState:
    """A person says no."""
    return await client.for_workflow(Transfer, transfer_id).ask(Transfer.reject, by)


@people.post("/wallets/{wallet_id}/freeze")
async def freeze(wallet_id: str, client: Client, frozen: bool = True) -> bool:
    """A person lets a wallet take no money, or take money again."""
    wallet = client.for_event_sourced_entity(WalletEntity, wallet_id)
    return await wallet.ask(WalletEntity.freeze, frozen)


service = Service("bank", components=[WalletEntity, Transfer], endpoints=[BankMcp, people])
