"""Who holds a device: from the processes on it to the workload behind them."""
